package fpga

// Bitstream and ParseBitstream are for tests that write images.
type Bitstream = bitstream

var ParseBitstream = parseBitstream
