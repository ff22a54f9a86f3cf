-- The auction as live streams that do not end. Punctuations close the items one by one; bids have no punctuations.
-- xmlpunct explain shows the consequences, and the punctuations that bids would need.

CREATE STREAM items (itemid INT NOT NULL, seller STRING, price INT NOT NULL)
  WITH (source = 'tcp://127.0.0.1:7001', element = 'item') PUNCTUATED BY (itemid);

CREATE STREAM bids (itemid INT NOT NULL, increase INT, buyerid STRING)
  WITH (source = 'tcp://127.0.0.1:7002', element = 'bid');

SELECT items.itemid, price + SUM(increase) AS finalprice
FROM items JOIN bids ON items.itemid = bids.itemid
GROUP BY items.itemid, price;
