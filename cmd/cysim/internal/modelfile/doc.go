// Package modelfile prints and checks the files of cysim serve --model.
package modelfile
