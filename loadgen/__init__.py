"""Load for services: scenarios, transmission of requests, and a service that takes load."""
