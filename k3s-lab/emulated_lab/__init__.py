"""What `lab emulated` needs beside shell: objects created without kubectl, and the run judged.

Beside these, the configurations of its Prometheus and its scheduler.
"""
