package cyborgclient

import "context"

// DeleteARQsAtOnce is DeleteARQs as Nova does it: one request, whose failure is
// the end. While one UUID is unknown (ErrNotFound), or may not be deleted, the
// others stay. It is for comparison with Nova; use DeleteARQs.
func (c *Client) DeleteARQsAtOnce(ctx context.Context, uuids []string) error {
	wanted := unique(uuids)
	if err := checkUUIDs("accelerator request", wanted); err != nil {
		return request{op: OpDeleteARQs, ids: wanted}.failed(ErrInvalid, err)
	}
	if len(wanted) == 0 {
		return nil
	}
	return c.deleteARQs(ctx, wanted)
}
