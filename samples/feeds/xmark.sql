-- XMark's auction site: the amount that each bidder added to the price of each featured item. Three streams read one
-- document: the items with an attribute, the people, and the auctions, each with an array of its bids. A punctuation
-- closes each auction and releases its results.

CREATE STREAM item (id STRING NOT NULL PATH '@id', name STRING)
  WITH (source = 'samples/feeds/xmark.xml', element = 'item', where = '@featured = ''yes''');

CREATE STREAM person (id STRING NOT NULL PATH '@id', name STRING)
  WITH (source = 'samples/feeds/xmark.xml', element = 'person');

CREATE STREAM open_auction (
  auction STRING NOT NULL PATH '@id',
  item STRING NOT NULL PATH 'itemref/@item',
  bidder ARRAY(person STRING PATH 'personref/@person', increase DECIMAL(12,2))
) WITH (source = 'samples/feeds/xmark.xml', element = 'open_auction');

SELECT o.auction, item.name AS item, person.name AS bidder, COUNT(*) AS bids, SUM(b.increase) AS added
FROM open_auction AS o CROSS JOIN UNNEST(o.bidder) AS b
  JOIN item ON o.item = item.id
  JOIN person ON b.person = person.id
GROUP BY o.auction, item.name, person.name;
