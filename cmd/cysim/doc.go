// Command cysim serves simulated OpenStack clouds with accelerators on a
// socket, for programs in any language.
//
//	cysim serve            a whole cloud: Keystone, Placement, Cyborg, stand-ins for Nova and Glance
//	cysim placement        Placement alone
//	cysim cyborg           Cyborg alone, beside the services of a real cloud
//
//	cysim ready            check whether a server is ready
//	cysim check            list the leaked resources of a running cloud
//	cysim load             run spawn/delete cycles
//
//	cysim lint             check flavors and device profiles
//	cysim import           make a state for serve from a real cloud
//	cysim model            print and check models, the files of serve --model
//	cysim state            print and compare the states that serve or cyborg keeps
//
//	cysim discover         which devices of this machine can be assigned to guests
//	cysim mdev             make and remove mediated devices and vGPUs, as a bind does
//	cysim unflatten        remove Cyborg's classes and traits from the compute providers
//
//	cysim help COMMAND     the flags and arguments of a command
//	cysim completion       complete commands and flags in bash, zsh or fish
//
// A command that serves prints shell export lines on standard output once it is ready, its log on
// standard error, and exits 0 on SIGINT or SIGTERM. With --daemon it returns then, and goes on in
// the background. Bad flags and files exit 2 with the cause in
// one line. Every other failure exits 1, and so do lint with errors and state diff with
// differences. discover exits 3 if Cyborg and Nova both claim a device, check and load exit 9 if
// something leaked.
//
// cysim adds no behaviour to the clouds: its flags are the fields of the structs that the
// libraries take. It listens on the loopback interface by default, because its routes below
// /_sim/ need no token and its passwords are public defaults.
//
//	eval "$(cysim serve --daemon)"
//	openstack accelerator device profile list
//	kill $CYSIM_PID
package main
