-- NETCONF notifications: how often each link changed in each hour, and the first line of the log that says so. What
-- happened is in a namespace of its own inside the notification. The log says when an hour is over, and that releases
-- its results.

CREATE STREAM notification (
  XMLNAMESPACES('urn:ietf:params:xml:ns:netconf:notification:1.0' AS n, 'urn:example:links' AS link),
  at TIMESTAMP NOT NULL PATH 'n:eventTime',
  interface STRING PATH 'link:link-state/link:if-name',
  state STRING PATH 'link:link-state/link:state',
  severity STRING PATH 'link:link-state/link:severity'
) WITH (source = 'samples/feeds/netconf.xml', element = 'n:notification');

SELECT DATE_TRUNC('hour', at) AS hour, interface, COUNT(*) AS changes, MIN("$line") AS first,
       COUNT(severity) AS alarms
FROM notification
WHERE state IS NOT NULL
GROUP BY DATE_TRUNC('hour', at), interface;
