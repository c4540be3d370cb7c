"""What calls cost, and the caps that hold them."""
