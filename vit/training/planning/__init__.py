"""Planning: a recipe becomes a plan, with every open choice decided and checked"""
