// Package webob writes the error pages of WebOb, the library below the APIs of Cyborg and Placement.
package webob
