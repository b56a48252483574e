-- What each customer has ordered.
select customers.id, customers.name, sum(orders.amount) as revenue
from {{ source('shop_public', 'orders') }} as orders
join {{ source('shop_public', 'customers') }} as customers on customers.id = orders.customer_id
group by customers.id, customers.name
