// Package pythonjson writes JSON as Python does, for readers that compare texts.
package pythonjson
