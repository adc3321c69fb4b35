"""Load generation: scenarios, a driver that sends their requests, and a service under load."""
