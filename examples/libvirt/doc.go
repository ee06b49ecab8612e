// Package libvirt is a hypervisor for agents whose hosts run libvirt. It runs virsh, so that it needs neither cgo nor a
// client of libvirt's protocol; an agent that has such a client calls the same functions of it.
package libvirt
