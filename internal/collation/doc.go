// Package collation compares texts as the database of a service does: byte by byte, or as MariaDB and MySQL do by default,
// without regard to case, accents and trailing blanks. A comparison is a key function: two texts are equal if they have the
// same key. Stores index by keys and show texts as they were written.
package collation
