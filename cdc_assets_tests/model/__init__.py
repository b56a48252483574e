"""The reference model and the publishing protocol as a simulation; the tests compare with both."""
