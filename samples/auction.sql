-- The final price of each item of an auction that was bid on: its price, and the increases bid on
-- it, as soon as the bids on it are over. Every item, and every bid, is forgotten by then.

CREATE STREAM items (itemid INT NOT NULL, seller STRING, price INT NOT NULL)
  WITH (source = 'samples/items.xml', element = 'item');

CREATE STREAM bids (itemid INT NOT NULL, increase INT, buyerid STRING)
  WITH (source = 'samples/bids.xml', element = 'bid');

SELECT items.itemid, price + SUM(increase) AS finalprice
FROM items JOIN bids ON items.itemid = bids.itemid
GROUP BY items.itemid, price;
