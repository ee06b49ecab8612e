// Package libvirt is a hypervisor for agents whose hosts run libvirt. It runs virsh and needs
// neither cgo nor a client of libvirt's protocol. An agent with such a client calls the
// corresponding functions.
package libvirt
