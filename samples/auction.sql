-- The final price of each auction item with bids: its price plus the increases of its bids. A result is emitted when
-- the bids on the item are closed. By then the item and its bids are purged.

CREATE STREAM items (itemid INT NOT NULL, seller STRING, price INT NOT NULL)
  WITH (source = 'samples/items.xml', element = 'item');

CREATE STREAM bids (itemid INT NOT NULL, increase INT, buyerid STRING)
  WITH (source = 'samples/bids.xml', element = 'bid');

SELECT items.itemid, price + SUM(increase) AS finalprice
FROM items JOIN bids ON items.itemid = bids.itemid
GROUP BY items.itemid, price;
