"""What things cost, measured beside the plain forms that they replace."""
