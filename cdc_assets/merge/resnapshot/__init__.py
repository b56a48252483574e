"""Reading tables of a live source again, and putting right what the lake has of them."""
