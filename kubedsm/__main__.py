from kubedsm.cli import main

main()
