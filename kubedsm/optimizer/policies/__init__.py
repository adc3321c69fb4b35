"""Whole policies, to be run and compared: KubeDSM, the baselines, kube-scheduler.

A policy only puts together what the other rooms offer.
"""
