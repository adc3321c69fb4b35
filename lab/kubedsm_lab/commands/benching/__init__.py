"""The commands `kubedsm bench ...`: each measures one side beside another.

What is measured is in `kubedsm_lab.bench`; here are options, and how it is shown.
"""
