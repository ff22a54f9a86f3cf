CREATE STREAM notification (
  XMLNAMESPACES('urn:example:links' AS l, 'urn:ietf:params:xml:ns:netmod:notification' AS n),
  at TIMESTAMP NOT NULL PATH 'eventTime',
  port STRING PATH 'l:link-failure/l:port'
) WITH (source = 'samples/standards/netconf.xml',
        element = '{urn:ietf:params:xml:ns:netconf:notification:1.0}notification')
  PUNCTUATE ON 'n:replayComplete' CLOSES ALL;
SELECT port, COUNT(*) AS failures, MAX(at) AS last FROM notification WHERE port IS NOT NULL GROUP BY port
