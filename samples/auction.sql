-- What each item of an auction goes for above its price: the sum of the increases bid on
-- it, as soon as the bids on it are over. Every item, and every bid, is forgotten by then.

CREATE STREAM items (itemid INT NOT NULL, seller STRING, price INT)
  WITH (source = 'samples/items.xml', element = 'item');

CREATE STREAM bids (itemid INT NOT NULL, increase INT, buyerid STRING)
  WITH (source = 'samples/bids.xml', element = 'bid');

SELECT items.itemid, SUM(increase) AS increases
FROM items JOIN bids ON items.itemid = bids.itemid
GROUP BY items.itemid;
