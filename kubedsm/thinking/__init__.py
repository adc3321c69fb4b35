"""What takes long to think about: questions as values, and who answers them.

Here: the questions, the forms of who is asked (this process, or a worker process that is told all
that the mirror is told), and the worker process. Not here: when something is asked, and what is
done about an answer; that is `runtime`.
"""
