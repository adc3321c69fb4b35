"""What the API's JSON means: objects read into the values of `kubedsm.model`, and what is wrong.

Bytes in, values out: no request is sent from here.
"""
