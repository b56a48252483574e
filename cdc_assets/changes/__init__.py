"""What a change is: coordinates, positions, fold rules. Pure Python."""
