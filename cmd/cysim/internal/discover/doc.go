// Package discover is the command cysim discover: it runs Cyborg's drivers on a sysfs, shows
// what they find and why the other devices are not offered, and names the devices that a
// nova.conf claims, too. It only reads.
package discover
