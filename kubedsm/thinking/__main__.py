from kubedsm.thinking.child import main

main()
