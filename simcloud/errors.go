package simcloud

import "errors"

// Errors of this package; compare with errors.Is.
var (
	// ErrModel is matched by every error about an invalid model.
	ErrModel = errors.New("simcloud: bad model")
	// ErrHost is matched by the error about an unknown host.
	ErrHost = errors.New("simcloud: no such host")
	// ErrDirectory is matched by the error about a host whose hardware is a directory: such a
	// machine cannot be restarted.
	ErrDirectory = errors.New("simcloud: the host's hardware is a directory")
	// ErrState is matched by the errors about a state that cannot be loaded: of another
	// schema_version, with unknown tables or members, contradictory, or of another model than
	// the cloud's.
	ErrState = errors.New("simcloud: bad state")
	// ErrEmptyState matches the error about an empty state file, which also matches [ErrState].
	ErrEmptyState = errors.New("simcloud: the state file is empty")
	// ErrNoState is matched by the error of a cloud whose state is incomplete because its
	// Placement is not simulated.
	ErrNoState = errors.New("simcloud: the state is incomplete")
)
