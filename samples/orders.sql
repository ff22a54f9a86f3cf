-- Orders with their lines. A query follows: xmlpunct run samples/orders.sql -q 'SELECT ... FROM orders'
CREATE STREAM orders (id INT PATH '@id', customer STRING, line ARRAY("@sku" STRING PATH '@sku', qty INT))
  WITH (source = 'samples/orders.xml', element = 'order');
