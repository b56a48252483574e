"""Orders changes, in one module for each source database."""

from cdc_assets.formats.order.order import (
    NUMBERS,
    Epochs,
    Order,
    OrderState,
    Placed,
    position_bytes,
)
from cdc_assets.formats.order.orders import order_of

__all__ = [
    "NUMBERS",
    "Epochs",
    "Order",
    "OrderState",
    "Placed",
    "order_of",
    "position_bytes",
]
