// Package tablestest has the checks that the state of every simulated service has to pass in its
// tests. It knows nothing of the services.
package tablestest
