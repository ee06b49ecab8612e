// Package ordered does independent work side by side and hands over the results in order.
package ordered
