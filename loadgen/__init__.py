"""Load for services: scenario files in the DrStress format, and what makes them."""
