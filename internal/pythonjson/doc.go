// Package pythonjson writes JSON as Python does, for readers that compare bytes.
package pythonjson
