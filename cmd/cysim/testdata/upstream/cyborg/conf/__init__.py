from oslo_config import cfg

CONF = cfg.ConfigOpts()
