"""Operations on tables that a person starts: one module or folder each, over one runner.

`operation` defines the shape, `options` the one declaration of options, `session` the means,
`running` the runner, `command` the click command. The Dagster job is made by
`cdc_assets.orchestration.operation_jobs`, the only module of the runner that knows Dagster.
"""
