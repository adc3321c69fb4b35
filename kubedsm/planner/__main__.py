from kubedsm.planner.child_process import main

main()
