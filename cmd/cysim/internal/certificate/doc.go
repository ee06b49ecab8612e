// Package certificate generates certificates for servers without one.
package certificate
