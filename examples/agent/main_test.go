package main

import "context"

func Example() {
	if err := run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// instance 0a1b2c3d-0000-4000-8000-000000000001 on cn0 has pci 0000:3b:00.0
	// 0 leaks
}
