package simcloud

// Description is for the test that compares the public description of hardware with the
// internal one.
var Description = description
