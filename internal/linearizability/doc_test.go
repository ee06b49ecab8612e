// Package linearizability checks what clients of a cloud observe: the answers to concurrent requests have to be
// those of some order in which each request happens at one moment between its call and its answer. Porcupine
// looks for that order. The cloud is a cysim in a process of its own, with faults, and it is killed and
// restarted while clients work.
//
//	go test -tags histories ./internal/linearizability -operations 20000
//
// A history is cut into pieces. The four clients of a group share its objects: a tree of resource providers and
// its consumers, or accelerator requests and two instances. A client whose request has no known outcome stops;
// then the piece is closed by a read of all objects, and its requests without outcome may have happened at any
// time since their call, or not at all.
package linearizability
