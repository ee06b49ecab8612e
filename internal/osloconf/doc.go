// Package osloconf reads configuration files of OpenStack services, such as nova.conf, by
// the rules of oslo.config: options may be repeated, values may continue in indented lines,
// comments have their own lines. Substitutions such as $host are not supported.
package osloconf
