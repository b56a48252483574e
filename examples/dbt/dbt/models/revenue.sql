select count(*) as customers, sum(revenue) as revenue
from {{ ref('customer_revenue') }}
