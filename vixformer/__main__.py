from vixformer.cli import main

main()
