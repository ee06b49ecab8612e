// Command cysim serves simulated OpenStack clouds with accelerators on a
// socket, for programs in any language.
//
// cysim --help lists the commands, and cysim help COMMAND the flags and arguments of one.
//
// serve, placement and cyborg print shell export lines on standard output when they are ready, log to
// standard error, and exit with 0 on SIGINT, SIGTERM or SIGHUP. With --daemon they return when the server is
// ready, and the server runs in the background. Bad flags and files exit with 2 and one line with the
// cause. Every other failure exits with 1, and so do errors of lint and differences of state diff.
// discover exits with 3 if a device is configured for both Cyborg and Nova, check and load exit with 9
// if resources leaked.
//
// cysim adds no behaviour to the clouds: its flags are the fields of the structs that the
// libraries take. It listens on the loopback interface by default, because its routes below
// /_sim/ need no token and its passwords are public defaults.
//
//	eval "$(cysim serve --daemon)"
//	openstack accelerator device profile list
//	kill $CYSIM_PID
package main
