//go:build !clients

package docs_test

// withClients is whether the commands of other programs run, too.
const withClients = false
