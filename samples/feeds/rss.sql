-- RSS 2.0: items with their author from the dc: namespace and the length of their text from the content: namespace,
-- which is CDATA. The channel's title is in an element around the items.

CREATE STREAM item (
  XMLNAMESPACES('http://purl.org/dc/elements/1.1/' AS dc, 'http://purl.org/rss/1.0/modules/content/' AS content),
  channel STRING PATH '../title',
  guid STRING NOT NULL,
  linked BOOLEAN PATH 'guid/@isPermaLink',
  title STRING,
  author STRING PATH 'dc:creator',
  body STRING PATH 'content:encoded',
  category STRING PATH 'category[1]'
) WITH (source = 'samples/feeds/rss.xml', element = 'item');

SELECT channel, guid, COALESCE(linked, TRUE) AS linked, title, COALESCE(author, 'agency') AS author, category,
       LENGTH(body) AS characters
FROM item;
