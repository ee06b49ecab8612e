// Package plural writes amounts of things in English. It knows regular plurals only.
package plural
